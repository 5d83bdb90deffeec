"""Evolution strategies and swarms."""
