"""ways_in"""
