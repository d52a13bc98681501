"""What the services promise each other: protocols and structs, nothing that runs."""
