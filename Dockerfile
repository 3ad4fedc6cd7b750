# docker build -t manyclass . && docker run -v ./models:/models -p 8000:8000 manyclass /models/topics.model --keys /models/keys
FROM python:3.12-slim
WORKDIR /build
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY src src
RUN pip install --no-cache-dir '.[serve]' && rm -rf /build && useradd --create-home service
USER service
WORKDIR /home/service
RUN manyclass warmup label-tree recall-tree
EXPOSE 8000
HEALTHCHECK --start-period=120s CMD ["python", "-c", "from urllib.request import *; urlopen('http://127.0.0.1:8000/v2/health/ready')"]
ENTRYPOINT ["manyclass", "serve", "--host", "0.0.0.0"]
