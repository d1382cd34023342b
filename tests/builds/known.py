# SPDX-License-Identifier: Apache-2.0
# Reads pods, a line each, as Kubernetes' own client for Python knows them, and writes them back:
# members that are unknown where they stand are gone, and those that are required are demanded.

import json
import sys

from kubernetes import client


class Answer:
    def __init__(self, text):
        self.data = text


api = client.ApiClient()
for line in sys.stdin:
    pod = api.deserialize(Answer(line), "V1Pod")
    print(json.dumps(api.sanitize_for_serialization(pod)))
