"""Reports derived from a model. Each takes a `System` and returns values; the hosts print them.

examples, resources, sql_statements, pattern_list: the operations that patterns build, and the resources they
touch measurement/  run the patterns and record units, items and time design/       the design check: one
function per rule cost/         monthly cost from measured units, declared rates and a price list iac/
CloudFormation templates and Terraform modules iam/          least-privilege policies and SQL grants docs/
Markdown pages with Mermaid diagrams
"""
