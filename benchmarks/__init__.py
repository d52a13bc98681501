"""What Roost promises of its speed, as rows of workloads, and one program that builds and runs any of them."""
