"""What operators may do: the command line, and whatever else shows a system to people, call nothing deeper than this."""
