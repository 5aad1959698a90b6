"""The sans-IO state machine of one site: events in, ordered effects out, no clock, no chance."""
