"""What computing needs beside mathematics: arrays, memory, threads, time limits and random generators."""
