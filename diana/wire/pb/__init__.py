"""Generated from proto/ by `python -m diana.wire.generate`. Do not edit."""
