"""A lead that calls workers for sub-tasks, some of which need others to be finished."""

from sparring.environments.dag_search.rules import DagSearch

dag_search = DagSearch
