"""The viewer: a local web application that reads run folders and never writes into them."""
