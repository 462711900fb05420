"""What operators may do. The command line, and whatever else shows a system to people, call nothing deeper."""
