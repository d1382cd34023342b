# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require_relative "tenax/errors"
require_relative "tenax/transport"
require_relative "tenax/together"
require_relative "tenax/client"
require_relative "tenax/job"
require_relative "tenax/worker"

# A client of Tenax, a durable job server. Client enqueues jobs and asks the server anything else; Worker
# runs a block for each job. Only the standard library is used.
module Tenax
end
