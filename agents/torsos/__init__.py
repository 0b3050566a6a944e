"""Torsos: networks from observations to features, `[N, F]`, chosen by what an environment shows or made by a user."""
