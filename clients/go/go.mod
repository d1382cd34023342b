// SPDX-License-Identifier: Apache-2.0

module tenax

go 1.19
