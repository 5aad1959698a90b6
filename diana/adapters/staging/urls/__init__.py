"""urls"""
