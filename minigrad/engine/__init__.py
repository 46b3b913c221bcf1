"""The engine: read array_functions, table, graph, reverse_pass, tensor, recording, operators, backward and rules, in this order."""
