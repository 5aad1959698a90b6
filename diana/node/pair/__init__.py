"""pair"""
