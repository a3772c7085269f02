// Notes what a user was shown, and asks which of some stories are new to them.
//
//	curl -o openapi.json http://127.0.0.1:8080/openapi.json
//	oapi-codegen -generate types,client -package api -o api/api.go openapi.json
//	go run . http://127.0.0.1:8080
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"liststore.example/check/api"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func item(nanoseconds int64, value string) api.ItemInput {
	return api.ItemInput{Timestamp: nanoseconds, Value: value}
}

func main() {
	ctx, client := context.Background(), must(api.NewClientWithResponses(os.Args[1]))

	// Answered with a problem where it is there already.
	feature := api.FeatureInput{EntityType: "user", Name: "story_shown", ValueType: api.ValueTypeString, Ttl: "30d"}
	must(client.CreateFeatureWithResponse(ctx, nil, feature))

	now := time.Now().UnixNano()
	items := api.AddItemsInput{Items: []api.ItemInput{item(now, "story-1"), item(now+1, "story-2")}}
	must(client.AddItemsWithResponse(ctx, "user", "story_shown", "u-123", nil, items))

	limit := int32(50)
	page := must(client.GetItemsWithResponse(ctx, "user", "story_shown", "u-123", &api.GetItemsParams{Limit: &limit}))
	fmt.Print("shown, newest first:")
	for _, item := range page.JSON200.Items {
		fmt.Print(" ", item.Value)
	}
	wanted := api.ContainsInput{Values: []any{"story-2", "story-3"}}
	known := must(client.ContainsItemsWithResponse(ctx, "user", "story_shown", "u-123", nil, wanted))
	fmt.Print("\nnew:")
	for _, result := range known.JSON200.Results {
		if result.Timestamp == nil {
			fmt.Print(" ", result.Value)
		}
	}
	fmt.Println()
}
