# One node of the grid in docker-compose.yml, and of `diana scenario run --on compose`. Where no image can be pulled,
# `make image` makes the one named here, and brings the packages along in wheels/.
FROM python:3.11-slim
WORKDIR /opt/diana
RUN command -v tc >/dev/null && command -v iptables >/dev/null \
    || (apt-get update && apt-get install -y --no-install-recommends iproute2 iptables && rm -rf /var/lib/apt/lists/*)
COPY requirements.lock wheels* /opt/lock/
RUN python -m venv /opt/venv \
    && offline=$(ls /opt/lock/*.whl >/dev/null 2>&1 && echo "--no-index --find-links /opt/lock" || true) \
    && /opt/venv/bin/pip install --no-cache-dir $offline --require-hashes -r /opt/lock/requirements.lock
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY scenarios scenarios
COPY proto/diana proto/diana
COPY diana diana
RUN /opt/venv/bin/pip install --no-deps --no-build-isolation --no-cache-dir . && /opt/venv/bin/python -m compileall -q /opt/venv/lib
ENV PATH=/opt/venv/bin:$PATH
RUN useradd --create-home diana && mkdir --mode 0700 /data /invitations && chown diana /data /invitations
USER diana
VOLUME /data
CMD ["diana", "node"]
