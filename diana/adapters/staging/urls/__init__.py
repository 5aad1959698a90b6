"""Inputs and outputs named by URL: http, https, S3, SFTP and folders of this machine. A URL that the site's operator
allows comes in; its content is brought to this site once and cached by its version, or an output is sent on to it,
never partly there. The libraries of each kind are imported when the first URL of that kind is met. Read `urls.py`
first, the entry with limits and retries, then `stores.py`, the interface of a store."""
