"""The engine: Tensors, recording, the rules and the reverse pass.

Read array_functions, table, graph, reverse_pass, tensor, recording, operators, backward and rules, in this
order.
"""
