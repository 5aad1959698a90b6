"""Inputs that once ended a reader in another way than by one line, the smallest of each kind."""

from __future__ import annotations

DEEP = 20_000
NUMBER = b"9" * 5000
"""Longer than Python converts."""
KEY_OF_NO_CURVE = b"""-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM09AwEHBG0wawIBAQQgAAAAAAAAAAAAAAAAAAAAAAAAAAAA
AAAAAAAAAAAAAAGhRANCAARrF9Hy4SxCR/i85uVjpEDydwN9gS3rM6D0oTlF2JjClk/jQuL+Gn+b
jufrSnwPnhYrzjNXazFezsu2QGg3v1H1
-----END PRIVATE KEY-----
"""
REQUEST_OF_NO_VERSION = b"""-----BEGIN CERTIFICATE REQUEST-----
MIHqMIGRAgEjMC8xDjAMBgNVBAoMBWRpYW5hMQ0wCwYDVQQLDARzaXRlMQ4wDAYD
VQQDDAVhbHBoYTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABOHfJ/gt6Dsbfm2H
x974cr1BgJprqjekmlQxCmvIQ96RjuF0Hx3HwAVoADyOeGLhVrHCniLDYEJ1pKcL
cr6IfFGgADAKBggqhkjOPQQDAgNIADBFAiBeyhat8dTLt4yRYJOUK6BgUG3mw0zs
hmKQ9GHlb56BSQIhAKdTbb2WIrSYl92yJY9YEkWV1cg5eGrxKJg8VM0zizex
-----END CERTIFICATE REQUEST-----
"""
CERTIFICATE_OF_NO_VERSION = b"""-----BEGIN CERTIFICATE-----
MIIB1jCCAX2gAwIBIwIUHePCjHkUhK1KUhV153deHQs5s1QwCgYIKoZIzj0EAwIw
KzEOMAwGA1UECgwFZGlhbmExCzAJBgNVBAsMAnZvMQwwCgYDVQQDDANsYWIwHhcN
MjYxMTI2MTEwMDIyWhcNMzYxMTIzMTEwNTIyWjArMQ4wDAYDVQQKDAVkaWFuYTEL
MAkGA1UECwwCdm8xDDAKBgNVBAMMA2xhYjBZMBMGByqGSM49AgEGCCqGSM49AwEH
A0IABC5ro2i7pTiw7LPKWUSOX2VvR4oMNhZma6bwPkrW+vC56SzCash5b/b4GzhV
VfUtJimfhhpRCC70iYdmdY8ZDzejfzB9MBIGA1UdEwEB/wQIMAYBAf8CAQIwDgYD
VR0PAQH/BAQDAgGGMB0GA1UdDgQWBBT7NbLCoNKp9ewnzDWmj4EfINgTrzAfBgNV
HSMEGDAWgBT7NbLCoNKp9ewnzDWmj4EfINgTrzAXBgNVHREEEDAOhgxzcGlmZmU6
Ly9sYWIwCgYIKoZIzj0EAwIDRwAwRAIgMrRB2HrkNsP9Re1NxeT+4Ay1+LdO9sZM
YAiLRmFwpKQCIHTwlAxYbSGo3sCDg+lqXkqEKAGVsj+eFvZ07m0mJp1I
-----END CERTIFICATE-----
"""
SWF_JOB = b"1 0 -1 10 1 -1 -1 1 10 -1 1 1 1 -1 1 1 -1 -1\n"

CRASHES = {
    "job.toml": [
        b"[group]\npriority = " + NUMBER,
        b"[group]\n" + b"x" * 500_000 + b" = 1-2\n",
        b"x" * 500_000 + b" = '0-1'\n",
    ],
    "job.sh": [
        b"#!/bin/sh\n#SBATCH --time=" + NUMBER[:400] + b"\n",
        b"#!/bin/sh\n#DIANA --time " + NUMBER[:400] + b"\n",
    ],
    "site.toml": [b'site = "a"\nvo = "v"\nlisten = ' + NUMBER, b"a = " + b"[" * DEEP, b"a." * DEEP + b"a = 1"],
    "policy.toml": [b"keep_s = " + NUMBER, b"a = " + b"[" * DEEP],
    "scenario.toml": [b"version = " + NUMBER, b"version = 1\na = " + b"[" * DEEP],
    "credential.toml": [b"a = " + b"[" * DEEP],
    "backup": [b"[" * DEEP, b'{"format":1,"release":"","db_uuid":"","files":[],"x":' + b"[" * DEEP],
    "sites.csv.gz": [b"\x1f\x8b\x08\0\0\0\0\0\0\3\xff\xff\xff", b"site,cpus\n"],
    "gridengine": [
        b"<job_info><job_list><JB_job_number>7</JB_job_number><JB_name>diana.a.1</JB_name><state>r</state>"
        b"<slots>many</slots><tasks>1</tasks></job_list></job_info>",
        b"complex_values gpu=much\n",
        b"<a>" * DEEP,
    ],
    "htcondor": [b"[" * DEEP, NUMBER],
    "pbs": [
        b"Job Id: 8.h\n    Job_Name = diana.a.1\n    job_state = R\n    Variable_List = PBS_ARRAY_INDEX="
        + NUMBER
        + b"\n",
        b"n1\n     state = free\n     resources_available.ncpus = " + NUMBER + b"\n",
        b"Job Id: 7[].h\n    Job_Name = diana.a.1\n    job_state = B\n    array_indices_remaining = 0-9999999999:2\n",
    ],
    "claims": [b"\xc1", b"\x92\xa2C\n\x00", b"\x98\xa6Opened\x01\x01\x00\x93\xa1b\x01\x02\x00\x00" + DEEP * b"\x91"],
    "live": [b"\x98\xa4runs\x00\x00\x00\xc4\x00\xa0\x00" + DEEP * b"\x91"],
    "marks": [b'{"log":"a","boot":"b","written":1,"synced":1,"x":' + b"[" * DEEP],
    "notes": [b'{"identity":"a","x":' + b"[" * DEEP],
    "notify": [b"\n", b"HTTP/1.1 2\x0b0 x\n"],
    "replica": [b'{"other":"a","x":' + b"[" * DEEP],
    "stores": [b"Content-Length: -1", b"Content-Length: " + NUMBER[:20], b"ETag: a"],
    "slurm": [
        b"x" * 200_000,
        b"7|0-9999999999:2|PENDING|diana.a.1|4|None\n",
        b"Job 7 to start at 2026-99-25T10:00:00 using 4\n",
        b"MaxArraySize = " + NUMBER + b"\n",
        b"7_[]|CANCELLED by 0\n",
    ],
    "keys": [KEY_OF_NO_CURVE, CERTIFICATE_OF_NO_VERSION],
    "request": [REQUEST_OF_NO_VERSION],
    "certificate": [CERTIFICATE_OF_NO_VERSION],
    "trace.swf": [b"; MaxProcs: " + NUMBER + b"\n" + SWF_JOB, b"; Partition: " + NUMBER + b" big\n" + SWF_JOB],
}
