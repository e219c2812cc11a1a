# SPDX-License-Identifier: Apache-2.0
"""The peer: FastAPI and onnxruntime behind the same path and the same JSON. peer.py MODEL PORT PROCESSES."""
import os
import sys

import fastapi
import numpy as np
import onnxruntime
import uvicorn

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1  # of one image, more threads are slower
session = onnxruntime.InferenceSession(sys.argv[1], options)
app = fastapi.FastAPI()


@app.post("/v2/models/lenet/infer")
async def infer(request: fastapi.Request):
    given = (await request.json())["inputs"][0]
    x = np.array(given["data"], np.float32).reshape(given["shape"])
    y = session.run(None, {given["name"]: x})[0]
    return {"model_name": "lenet", "outputs": [{"name": "output", "datatype": "FP32", "shape": list(y.shape), "data": y.ravel().tolist()}]}


if __name__ == "__main__":  # the processes import this file
    uvicorn.run("peer:app", app_dir=os.path.dirname(os.path.abspath(__file__)), host="127.0.0.1", port=int(sys.argv[2]),
                workers=int(sys.argv[3]), log_level="warning", access_log=False)
