"""The command line. A verb and its words come in; `main.py` finds the verb in one table and imports only its module,
which calls the node through `diana.client` or works on files, and prints text for people or JSON for programs. An error
leaves as one line and an exit code. Each sub-package is a family of verbs, and `shared` has the parts that all of them
use. Read `main.py` first, the table of verbs."""
