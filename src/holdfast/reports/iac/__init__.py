"""Infrastructure as code: CloudFormation templates and Terraform modules."""
