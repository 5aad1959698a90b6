"""Certificates, made and checked: `making` and `authority` issue, `invites` lets newcomers ask, `chains` judges."""
