# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

Gem::Specification.new do |spec|
  spec.name = "tenax"
  spec.version = "0.1.0"
  spec.summary = "A client of Tenax, a durable job server: enqueueing, and workers with leases"
  spec.authors = ["The Tenax authors"]
  spec.license = "Apache-2.0"
  spec.required_ruby_version = ">= 3.0"
  spec.files = Dir["lib/**/*.rb", "README.md", "CHANGELOG.md", "LICENSE"]
  spec.require_paths = ["lib"]
end
