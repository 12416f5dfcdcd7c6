# The sample shop: the same image serves the pages, runs the workers and applies the migrations.
FROM python:3.12-slim
WORKDIR /app
COPY pyproject.toml README.md LICENSE ./
COPY flask_geneva ./flask_geneva
RUN pip install --no-cache-dir ".[postgresql,mysql]" "pymysql[rsa]" gunicorn
COPY migrations ./migrations
COPY sample_app ./sample_app
RUN useradd --create-home shop
USER shop
ENV FLASK_APP=sample_app PYTHONUNBUFFERED=1
EXPOSE 8000
CMD ["gunicorn", "--bind", "0.0.0.0:8000", "--workers", "2", "--threads", "4", "sample_app:create_app()"]
