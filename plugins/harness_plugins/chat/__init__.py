"""`harness chat CONFIG`: talk to an agent in the terminal. A command, and no plugin of its own.

    harness chat harness.yaml --agent reviewer
    echo "What has changed?" | harness chat harness.yaml

Each line is a message. Lines that begin with a slash are for the chat itself: `/help` lists them.
Ctrl-C ends the turn that runs; where none runs, and at the end of the input, the chat ends.
"""
