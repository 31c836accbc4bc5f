// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A data set of four IDX files in one directory, each gzip or plain.
#pragma once

#include <memory>
#include <string>

#include "datasets/catalog_entry.h"

namespace ddpbench::data {

// CatalogEntry::open for the IDX format of MNIST. The entry's files are train images, train labels,
// test images and test labels, in this order, of 28 x 28 grey pixels. Fewer samples than were
// published are fine (a subset); another image size is not.
std::unique_ptr<DatasetSource> open_idx_dataset(const CatalogEntry& entry,
                                                const std::string& directory);

}  // namespace ddpbench::data
