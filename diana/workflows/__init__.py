"""Other people's workflow engines as users of diana: what they run becomes groups of jobs, through the client alone."""
