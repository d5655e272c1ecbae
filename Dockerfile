# One image for every worker of the fleet: slim, not root, nothing written outside /tmp.
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY server ./server
COPY stores ./stores
RUN python -m venv /app/.venv \
    && /app/.venv/bin/pip install --no-cache-dir --disable-pip-version-check -c constraints.txt .

FROM python:3.13-slim
RUN useradd --system --uid 10001 --home-dir /app nonstick
COPY --from=build /app/.venv /app/.venv
COPY examples /app/examples
WORKDIR /app
ENV PATH=/app/.venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001
EXPOSE 5005
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:5005/healthz', timeout=2)"]
# A store must be named: a public bind without REDIS_URL refuses to start.
ENTRYPOINT ["nonstick", "run", "--interface", "0.0.0.0", "--port", "5005"]
CMD ["--assistant", "examples/bank", "--workers", "2"]
