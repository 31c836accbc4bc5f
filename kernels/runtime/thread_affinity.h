// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Binding threads to processors. Private to the CPU device.
#pragma once

namespace ddpbench {

// Binds the calling thread to one OS processor number. Returns 0 or an errno value.
int pin_calling_thread(int processor) noexcept;

}  // namespace ddpbench
