"""What went wrong for others, once each: by kind of report, and by known mistake."""
