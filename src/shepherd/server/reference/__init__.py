"""The description of the API: an OpenAPI document made of the routes, and a page to read."""
