"""Memory, facts and knowledge of one user for other assistants, over the Model Context Protocol."""
