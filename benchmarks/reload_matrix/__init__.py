"""Who gets which reload right: the same saves on several systems. Run `python -m` this package.

model       what a scenario is, and what can be seen of a system
scenarios   the scenarios, as data
host        a plain harness for the systems that bring none
systems     one adapter each: the most favourable honest use of it
child       one scenario on one system, in a process of its own
__main__    all of them, and the table
"""
