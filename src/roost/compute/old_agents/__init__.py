"""What serves agents that make, bind or delete ports themselves; release 2.0 deletes it.

It has the rooms of a service. Only the wiring and the other `old_agents` know it: nothing of it runs where no agent
may do so.
"""
