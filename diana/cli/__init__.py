"""The command line. One module per family of verbs, imported when its verb is called."""
