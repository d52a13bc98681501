"""The words of the network wing."""
