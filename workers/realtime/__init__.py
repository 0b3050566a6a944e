"""With --interaction=realtime: games that are played by the clock, and the processes that choose their actions."""
