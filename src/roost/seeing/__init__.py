"""What operators see and do: what happened, why a server finds no host, how many more fit, and getting hosts empty."""
