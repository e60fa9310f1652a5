"""boto3's Converse under OpenTelemetry's botocore instrumentation."""

# The snippet of the page goes here.

import boto3
from botocore.config import Config

from tests.clients.apps.exercises import PROMPT, provider_url

MODEL = "anthropic.claude-sonnet-4-5-20250929-v1:0"
ASKED = [{"role": "user", "content": [{"text": PROMPT}]}]
client = boto3.client(
    "bedrock-runtime",
    region_name="us-east-1",
    endpoint_url=provider_url("bedrock"),
    aws_access_key_id="AKIA-CANARY-7Q-KEY",
    aws_secret_access_key="CANARY-7Q-KEY",
    config=Config(retries={"total_max_attempts": 1}),
)
client.converse(modelId=MODEL, messages=ASKED)
client.converse(modelId="amazon.nova-lite-v1:0", messages=ASKED)
for _ in client.converse_stream(modelId=MODEL, messages=ASKED)["stream"]:
    pass
