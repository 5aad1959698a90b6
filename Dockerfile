# One node of the grid in docker-compose.yml.
FROM python:3.11-slim
WORKDIR /opt/diana
COPY requirements.lock ./
RUN python -m venv /opt/venv && /opt/venv/bin/pip install --require-hashes -r requirements.lock
COPY . .
RUN /opt/venv/bin/pip install --no-deps --no-build-isolation .
ENV PATH=/opt/venv/bin:$PATH
RUN useradd --create-home diana && mkdir --mode 0700 /data && chown diana /data
USER diana
VOLUME /data
CMD ["diana", "node"]
