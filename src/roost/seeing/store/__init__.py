"""SQL of the operator's side."""
