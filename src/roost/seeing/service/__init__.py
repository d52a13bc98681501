"""The operations of the operator's side: each asks the services, and the rules by which they place servers."""
