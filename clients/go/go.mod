// SPDX-License-Identifier: Apache-2.0

module tenax.dev/tenax

go 1.19
