"""Fixtures: small run folders, and an HTTP client of a viewer without a network."""

import pytest
from starlette.testclient import TestClient

import sparring
from sparring.view.app import application
from sparring.view.pages import Pages
from sparring.view.watch import RunWatcher
from tests.view import run_writer

TOKEN = "right-token"


@pytest.fixture
def run_folder(tmp_path):
    return run_writer.write_run(tmp_path / "runs" / "kuhn")


@pytest.fixture(scope="session")
def trained_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "kuhn"
    sparring.train("kuhn-tiny", *run_writer.TRAINING, run=path)
    return path


@pytest.fixture(scope="module")
def open_client():
    resources = []

    def open_viewer(*folders, **options):
        watch = RunWatcher(folders)
        resources.append(watch)
        watch.start()
        assert watch.idle.wait(20)
        pages = Pages(watch)
        resources.append(pages)
        client = TestClient(application(pages, TOKEN, **options), base_url="http://127.0.0.1:7460")
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        client.watch, client.pages = watch, pages
        return client

    yield open_viewer
    for resource in resources:
        resource.close()
