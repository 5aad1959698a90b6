"""central"""
