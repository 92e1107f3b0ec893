"""A lead that calls workers, who search for the cells of a table at once."""

from sparring.environments.wide_search.rules import WideSearch

wide_search = WideSearch
