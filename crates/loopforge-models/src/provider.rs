//! A model of a provider over HTTP.

use async_trait::async_trait;
use loopforge_core::model::Request;

use crate::http::{Endpoint, Transfer};
use crate::wire::{self, Api, Options, Reader};
use crate::{Answer, CallContext, Description, Model};

/// A model of a provider over HTTP.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) description: Description,
    pub(crate) api: Api,
    pub(crate) options: Options,
    pub(crate) endpoint: Endpoint,
}

#[async_trait]
impl Model for Provider {
    fn describe(&self) -> &Description {
        &self.description
    }

    async fn call(&self, request: &Request, context: &CallContext) -> Answer {
        let encoded = wire::encode(self.api, request, &self.options);
        let decoder = wire::decoder(self.api, &self.options);
        let mut reader = Reader::new(decoder, context.on_delta.clone());
        let Transfer { mut exchange, result } = self.endpoint.send(encoded.body, context, &mut reader).await;
        exchange.api = Some(self.api);
        let result = result.and_then(|()| reader.finish()).map(|draft| draft.complete(request, &encoded.names));
        Answer { result, exchange }
    }
}
