"""State and verbs: what an algorithm keeps, how it starts, grows, learns and answers. No validation here."""
